"""Collects the tests of `tests/keras` a second time, over tf_keras, which is Keras 2.

A test file is loaded once more, with tf_keras where it says `keras`, and so are the helpers beside
it. Tests that run over one Keras alone are in `APART`, with the reason. `./dev test --all` runs the
others over both, the fast tests those of `FAST`.
"""

import ast
import importlib.machinery
import importlib.util
import pathlib
import re
import sys
from types import MappingProxyType

import pytest
from _pytest.assertion.rewrite import rewrite_asserts

APART = MappingProxyType(
    {
        "It runs no model.": (
            "data/test_epoch_steps.py",
            "data/test_narrowing.py",
            "replication/test_replica_logs.py",
            "replication/test_replica_state.py",
            "saving/test_whole_files.py",
            "test_namespaces.py",
        ),
        "It says itself over which Keras it runs.": (
            "adapters/test_graphs.py",
            "adapters/test_models.py",
            "data/test_tf_keras.py",
            "layers/test_tf_keras.py",
            "optimizers/test_tf_keras.py",
            "pipeline/test_tf_keras.py",
            "saving/test_tf_keras.py",
            "steps/test_own_step_gradients.py",
            "test_huggingface.py",
            "test_tf_keras.py",
            "test_tf_keras_subclasses.py",
        ),
        "It is about the classes of Keras 3, those of tf_keras have tests beside it.": (
            "layers/test_vendor_bases.py",
            "optimizers/test_ipu_optimizers.py",
            "steps/test_equal_blocks.py",
            "steps/test_equal_updates.py",
            "test_training_state.py"
            "::test_a_model_inherits_the_state_its_setters_and_the_hooks_of_keras_alone",
            "test_construction.py::test_tf_keras_makes_ipu_models",
            "test_clear_session.py"
            "::test_custom_objects_are_those_from_before_once_the_scope_is_left",
            "pipeline/test_scope.py::test_keras_is_left_as_it_was",
            "loop/test_nan_cause.py::test_the_message_has_the_operation",
            "loop/test_nan_cause.py::test_the_error_has_the_operation",
            "loop/test_nan_cause.py::test_without_tracing_it_says_how_to_trace",
            "loop/test_nan_cause.py::test_what_tracing_does_not_find",
            "loop/test_nan_cause.py::test_a_finite_loss_and_other_strategies_are_left_alone",
        ),
        "Another process imports Keras 3.": (
            "loop/test_device_loop.py::test_results_do_not_depend_on_the_number_of_threads",
        ),
        "Keras 2 has no `RematScope`.": ("test_rematerialization.py",),
        "Random layers of Keras 2 draw by operations with states of their own, outside of files.": (
            "layers/test_augmentation.py",
            "pipeline/test_resuming.py",
            "saving/test_options_config.py::test_random_states_go_on",
            "saving/test_options_config.py::test_random_states_of_other_models_are_left_out",
            "saving/test_options_config.py::test_stock_weights_have_no_random_states",
            "loop/test_device_loop.py"
            "::test_xla_compiles_the_loops_of_dense_networks[with dropout-True]",
            "loop/test_device_loop.py::test_dropout_draws_the_same_in_loops_that_xla_compiles",
            "test_recomputation.py::test_weights_are_equal_to_the_bit_with_dropout",
        ),
        "Operations are layers in Keras 2, and functions of TensorFlow make such layers.": (
            "pipeline/test_assignment.py::test_layers_behind_tensorflow_functions_cannot_be_seen",
            "pipeline/test_nested.py::test_a_nested_subclass_that_cannot_be_seen_is_one_piece",
            "pipeline/test_nested.py"
            "::test_stages_in_a_nested_subclass_that_cannot_be_seen_are_an_error",
            "pipeline/test_scope.py::test_operations_without_a_layer_need_no_stage",
            "test_report_rows.py",
        ),
        "`build` of Keras 2 takes shapes alone; layers are called to know theirs.": (
            "pipeline/test_assignment.py::test_build_tells_the_types_of_inputs",
            "pipeline/test_assignment.py::test_plain_shapes_stand_for_floating_point_inputs",
            "pipeline/test_nested.py::test_paths_of_a_nested_subclass_are_those_of_its_weights",
            "pipeline/test_nested.py"
            "::test_a_subclass_with_stages_for_some_of_its_layers_is_not_built[input]",
            "layers/test_dense.py::test_shapes_of_symbolic_inputs",
            "layers/test_embedding.py::test_large_ids_of_a_sequential_keep_their_value",
            "layers/test_rnn.py::test_the_shape_of_the_inputs_is_checked",
        ),
        "Paths of layers and weights are others in Keras 2.": (
            "pipeline/test_assignment.py"
            "::test_a_stage_number_of_a_sequential_goes_for_a_whole_nested_model",
            "pipeline/test_assignment.py::test_each_input_of_a_nested_model_has_its_own_source",
            "pipeline/test_assignment.py::test_layers_of_one_path_are_in_one_stage",
            "pipeline/test_assignment.py::test_paths_are_those_that_keras_names_ops_by",
            "layers/test_effective_transformer.py::test_context_and_outputs",
            "layers/test_effective_transformer.py::test_scale",
            "layers/test_effective_transformer.py::test_queries_keys_and_values_start_different",
        ),
        "Steps of Keras 2 call `minimize`, and `apply_gradients` in place of `apply`.": (
            "pipeline/test_running.py::test_an_optimizer_that_computes_gradients",
            "replication/test_gradient_accumulation.py"
            "::test_optimizers_with_a_minimize_of_their_own_are_refused",
            "replication/test_gradient_accumulation.py"
            "::test_the_optimizer_gets_gradients_in_the_type_of_the_accumulators",
        ),
        "Optimizers of Keras 2 have other names, methods and arguments.": (
            "optimizers/test_accumulation.py::test_an_unfinished_update_lives_on_in_a_saved_state",
            "optimizers/test_accumulation.py::test_type_of_the_accumulators",
            "optimizers/test_als_optimizer.py::test_variables_without_gradients_are_left_out",
            "optimizers/test_in_models.py::test_training_goes_on_from_a_file",
            "optimizers/test_in_models.py::test_fit_equals_stock[lamb]",
            "replication/test_gradient_accumulation.py::test_any_optimizer[Lamb]",
            "pipeline/test_mixed_precision.py::test_two_stages_train_as_stock_keras[accumulating]",
        ),
        "Keras 2 takes this, or computes it otherwise.": (
            "replication/test_replication.py::test_trainable_weights_are_not_copied",
            "data/test_preparation.py::test_data_of_no_known_kind_is_left_to_keras",
            "layers/test_ctc.py::test_float16_loss",
            "layers/test_rnn.py::test_stateful_layers_go_on",
            "layers/test_rnn.py::test_initial_states",
            "layers/test_rnn.py"
            "::test_a_layer_computes_with_the_tensors_that_take_the_place_of_its_weights",
            "data/test_preparation.py"
            "::test_shuffling_of_a_dataset_is_warned_about_where_it_is_asked_for[yes]",
            "test_compiling.py::test_losses_of_float16_layers_are_added_to_that_of_the_model",
            "test_compiling.py"
            "::test_steps_per_execution_are_a_positive_integer[None-None of type NoneType]",
            "saving/test_options_config.py"
            "::test_a_configuration_without_that_of_keras_goes_to_keras_files_alone",
        ),
        "Its figures are those of the programs of Keras 3.": (
            "test_recomputation.py"
            "::TestTheExampleOfTheVendor::test_with_the_best_checkpoints_ten_run_again_and_five_are_live",
            "deployment/test_device_pipeline.py"
            "::TestOffloading::test_the_state_leaves_full_tiles_unless_it_may_not",
            "deployment/test_auto_pipeline.py",
        ),
    }
)
"""What runs over one Keras alone, by the reason: files, tests or cells of tests."""

FAST = frozenset(
    {
        "data/test_preparation.py::test_partial_batches_are_refused[fit]",
        "layers/test_marks.py::test_values_and_gradients_stay[checkpoint]",
        "optimizers/test_als_optimizer.py::test_the_factor_grows_when_gradients_are_small",
        "pipeline/test_assignment.py::test_functional",
        "replication/test_replication.py::test_predictions_are_in_the_order_of_the_data[4]",
        "saving/test_options_config.py::test_every_option_comes_back[keras-sequential]",
        "steps/test_own_steps.py::test_a_step_may_be_set_on_the_model[fit]",
        "test_compiling.py::test_steps_per_execution_are_a_positive_integer[-1--1 of type int]",
        "test_construction.py::test_extensions_can_be_switched_off",
        "test_construction.py::test_models_made_in_the_scope_are_ipu_models[subclass]",
    }
)
"""The cells that run over both Keras in the fast tests."""

TESTS = pathlib.Path(__file__).with_name("keras")
_TWIN = "over_keras_2"
_REPLACED = (
    (r"^import keras$", "import tf_keras as keras"),
    (r"^from ipu_tf\.keras import (layers|optimizers)$", r"from ipu_tf.keras.tf_keras import \1"),
    (r"^from ipu_tf\.keras import (Sequential)$", r"from ipu_tf.keras.tf_keras.models import \1"),
    (r"\bipu_tf\.keras\.(layers|optimizers)\b", r"ipu_tf.keras.tf_keras.\1"),
    (r"\bipu_tf\.keras\.(Model|Sequential)\b", r"ipu_tf.keras.tf_keras.models.\1"),
    (r"\bipu_tf\.keras\.keras3\b", "ipu_tf.keras.tf_keras"),
    (r"^from tests\.keras\b", f"from {_TWIN}"),
)
"""What a file says of Keras 3, and what its twin says of tf_keras."""


def collector(path, parent):
    """Returns what collects the tests of a file over tf_keras, None for a file without such."""
    name = path.relative_to(TESTS).as_posix()
    is_fast = parent.config.getoption("-m") == "not slow"
    is_chosen = any(cell.startswith(f"{name}::") for cell in FAST) if is_fast else True
    is_test = path.name.startswith("test_") and path.suffix == ".py"
    is_here = importlib.util.find_spec("tf_keras") is not None
    if not (is_test and is_chosen and is_here) or name in _apart():
        return None
    # An identity of its own: else it would see the fixtures of the module over Keras 3.
    nodeid = f"{path.relative_to(parent.config.rootpath).as_posix()}::{_TWIN}"
    return _File.from_parent(parent, path=path, nodeid=nodeid)


def _apart():
    return {name for names in APART.values() for name in names}


class _File(pytest.File):
    """A test file, for its twin alone, which pytest finds as `FILE::over_keras_2`."""

    def collect(self):
        """Yields the twin."""
        yield _Twin.from_parent(self, path=self.path, name=_TWIN, nodeid=self.nodeid)


class _Twin(pytest.Module):
    """The tests of a file over tf_keras."""

    def _getobj(self):
        for name in ("layers", "models", "optimizers"):  # Tests that run alone find them too.
            importlib.import_module(f"ipu_tf.keras.tf_keras.{name}")
        place = self.path.relative_to(TESTS).with_suffix("")
        module = importlib.import_module(".".join((_TWIN, *place.parts)))
        vars(module).setdefault("build", importlib.import_module(f"{_TWIN}.conftest").build)
        for name in _apart():
            file, _, test = name.partition("::")
            if file == f"{place.as_posix()}.py" and "[" not in test:
                *cls, function = test.split("::")
                delattr(getattr(module, cls[0]) if cls else module, function)
        return module

    def collect(self):
        """Yields the tests, all but those of `FAST` as slow ones."""
        file, apart = self.path.relative_to(TESTS).as_posix(), _apart()
        for item in super().collect():
            name = f"{file}::{item.name}"
            if name in apart:
                continue
            if name not in FAST:
                item.add_marker(pytest.mark.slow)
            yield item


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a file of the tests with tf_keras for Keras."""

    def get_code(self, fullname):
        """Returns the code of the twin."""
        source = pathlib.Path(self.path).read_text()
        for pattern, replacement in _REPLACED:
            source = re.sub(pattern, replacement, source, flags=re.MULTILINE)
        tree = ast.parse(source)
        rewrite_asserts(tree, source.encode(), self.path)
        return compile(tree, self.path, "exec")


class _Finder:
    """Finds the twins of the files of the tests, as modules of a package `over_keras_2`."""

    def find_spec(self, fullname, path=None, target=None):
        """Returns the specification of a twin, None for other modules."""
        root, *parts = fullname.split(".")
        if root != _TWIN:
            return None
        place = TESTS.joinpath(*parts)
        if place.is_dir():
            return importlib.machinery.ModuleSpec(fullname, None, is_package=True)
        file = str(place.with_suffix(".py"))
        return importlib.util.spec_from_file_location(
            fullname, file, loader=_Loader(fullname, file)
        )


sys.meta_path.append(_Finder())
