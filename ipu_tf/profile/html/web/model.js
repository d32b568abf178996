// The figures of a program, from the columns of the page's data.

const PHASES = ["forward", "backward", "update"];
const KINDS = ["compute", "exchange", "sync", "host"];

/** Returns the values of runs: a value, how often it follows itself, the next value ... */
function unrolled(pairs, length) {
  const values = new Float64Array(length);
  let at = 0;
  for (let index = 0; index < pairs.length; index += 2) {
    values.fill(pairs[index], at, at + pairs[index + 1]);
    at += pairs[index + 1];
  }
  return values;
}

/** The steps, supersteps and tensors of a stage. */
class Stage {
  constructor(plain, device) {
    Object.assign(this, { index: plain.index, ipu: plain.ipu, plain, device });
    this.text = (number) => device.texts[number];
    this.steps = plain.steps;
    this.supersteps = plain.supersteps;
    this.tensors = plain.tensors;
    this.count = plain.steps.name.length;
    this.firstSuperstep = new Uint32Array(this.count + 1);
    this.cycles = new Float64Array(this.count);
    for (let step = 0; step < this.count; step += 1) {
      const first = this.firstSuperstep[step];
      const end = (this.firstSuperstep[step + 1] = first + plain.steps.supersteps[step]);
      for (let index = first; index < end; index += 1) this.cycles[step] += this.#length(index);
      this.cycles[step] *= plain.steps.repeats[step];
    }
  }

  #length(index) {
    return sum(KINDS.map((kind) => this.supersteps[kind][index]));
  }

  /** Returns the supersteps of a step. */
  supersteps_of(step) {
    const first = this.firstSuperstep[step];
    return Array.from({ length: this.firstSuperstep[step + 1] - first }, (_, index) => first + index);
  }

  /** Returns the cycles of a kind, or bytes, of all repetitions of a step. */
  total(step, column) {
    const values = this.supersteps[column];
    let found = 0;
    for (let index = this.firstSuperstep[step]; index < this.firstSuperstep[step + 1]; index += 1)
      found += values[index];
    return found * this.steps.repeats[step];
  }

  /** Returns whether the figures of every tile are known. */
  get hasTiles() {
    return Boolean(this.plain.tileFigures);
  }

  /** Returns a figure of every tile in a superstep: "compute", "wait", "received" or "sent". */
  ofTiles(superstep, figure) {
    return unrolled(this.device.tileRuns[this.plain.tileFigures[figure][superstep]], this.device.tiles);
  }

  /** Returns a figure of every tile, summed over steps, each with all its repetitions. */
  sumOfTiles(steps, figure) {
    const changes = new Float64Array(this.device.tiles + 1);
    for (const [step, times] of steps) {
      for (let index = this.firstSuperstep[step]; index < this.firstSuperstep[step + 1]; index += 1) {
        const pairs = this.device.tileRuns[this.plain.tileFigures[figure][index]];
        const weight = times * this.steps.repeats[step];
        for (let run = 0, at = 0; run < pairs.length; run += 2) {
          changes[at] += weight * pairs[run];
          changes[(at += pairs[run + 1])] -= weight * pairs[run];
        }
      }
    }
    let now = 0;
    return changes.subarray(0, this.device.tiles).map((change) => (now += change));
  }

  name(step) {
    return this.text(this.steps.name[step]);
  }

  layer(step) {
    return this.text(this.steps.layer[step]);
  }

  phase(step) {
    return PHASES[this.steps.phase[step]];
  }

  /** Returns whether a tensor is in memory at a step. */
  isLive(tensor, step) {
    const { alwaysLive, firstStep, lastStep } = this.tensors;
    return Boolean(alwaysLive[tensor]) || (firstStep[tensor] <= step && step <= lastStep[tensor]);
  }

  tensor(index) {
    const column = this.tensors;
    return {
      name: this.text(column.name[index]),
      layer: this.text(column.layer[index]),
      category: this.text(column.category[index]),
      bytes: column.bytes[index],
      alwaysLive: Boolean(column.alwaysLive[index]),
      firstStep: column.firstStep[index],
      lastStep: column.lastStep[index],
      tileBytes: column.tileBytes[index],
    };
  }

  /** Returns the bytes of a tensor on all tiles, padding and copies included. */
  heldBytes(tensor) {
    return this.tensors.tiles[tensor] * this.tensors.tileBytes[tensor];
  }

  /** Returns the bytes of a tensor on a tile. */
  bytesOn(tensor, tile) {
    const { firstTile, tiles, tileBytes } = this.tensors;
    const all = this.device.tiles;
    const offset = (((tile - firstTile[tensor]) % all) + all) % all;
    return offset < tiles[tensor] ? tileBytes[tensor] : 0;
  }
}

/** The memory of an IPU, with the stage whose tensors are live at its peak. */
class Ipu {
  constructor(plain, device) {
    Object.assign(this, plain, { device });
    const own = device.stages.filter((stage) => plain.stages.includes(stage.index));
    this.stagesThere = own;
    // The stage that is fullest: the one whose steps the memory of the IPU is listed for.
    this.stage = own.find((stage) => stage.count === plain.liveBytes.length) ?? own[0];
    const categories = new Map();
    for (const [list, isLive] of [
      [plain.alwaysLive, true],
      [plain.atPeak, false],
    ]) {
      for (const [category, pairs] of list) {
        const entry = categories.get(category) ?? { category, always: null, peak: null };
        entry[isLive ? "always" : "peak"] = unrolled(pairs, device.tiles);
        categories.set(category, entry);
      }
    }
    this.categories = [...categories.values()].map((entry) => ({
      ...entry,
      bytes: Float64Array.from(
        { length: device.tiles },
        (_, tile) => (entry.always?.[tile] ?? 0) + (entry.peak?.[tile] ?? 0),
      ),
    }));
    this.tileBytes = new Float64Array(device.tiles);
    for (const { bytes } of this.categories) bytes.forEach((value, tile) => (this.tileBytes[tile] += value));
    this.alwaysBytes = sum(this.categories.map((entry) => (entry.always ? sum([...entry.always]) : 0)));
    this.fullest = this.tileBytes.reduce(
      (best, value, tile) => (value > this.tileBytes[best] ? tile : best),
      0,
    );
  }

  get label() {
    const stages = this.stages.length > 1 ? `stages ${this.stages.join(", ")}` : `stage ${this.stages[0]}`;
    return this.device.isPipeline ? `IPU ${this.ipu} (${stages})` : `IPU ${this.ipu}`;
  }

  get maxBytes() {
    return this.tileBytes[this.fullest] ?? 0;
  }

  get meanBytes() {
    return sum([...this.tileBytes]) / Math.max(1, this.device.tiles);
  }

  get verdict() {
    const over = this.maxBytes - this.limit;
    return over > 0 ? `OUT OF MEMORY by ${kib(over)} KiB` : "fits";
  }

  /**
   * Whether the tensors are listed one by one. Models that no longer exist leave one tensor for each
   * layer and category behind, of those that are live at the peak.
   */
  get hasTensors() {
    this.known ??= this.liveBytes.length === 0 || (this.#listsEveryStep() && this.#listsEveryTile());
    return this.known;
  }

  #listsEveryStep() {
    const { firstStep, lastStep, alwaysLive } = this.stage.tensors;
    const changes = new Float64Array(this.liveBytes.length + 1);
    for (let tensor = 0; tensor < firstStep.length; tensor += 1) {
      if (alwaysLive[tensor]) continue;
      changes[firstStep[tensor]] += this.stage.heldBytes(tensor);
      changes[lastStep[tensor] + 1] -= this.stage.heldBytes(tensor);
    }
    let now = this.alwaysBytes;
    return this.liveBytes.every((live, step) => (now += changes[step]) === live);
  }

  #listsEveryTile() {
    return this.tileBytesAt(this.peakStep).every((bytes, tile) => bytes === this.tileBytes[tile]);
  }

  /** Returns the bytes of every tile at a step. */
  tileBytesAt(step) {
    const values = new Float64Array(this.device.tiles);
    for (const { always } of this.categories) always?.forEach((value, tile) => (values[tile] += value));
    const { stage } = this;
    const { firstTile, tiles, tileBytes, alwaysLive } = stage.tensors;
    for (let tensor = 0; tensor < firstTile.length; tensor += 1) {
      if (alwaysLive[tensor] || !stage.isLive(tensor, step)) continue;
      for (let offset = 0; offset < tiles[tensor]; offset += 1)
        values[(firstTile[tensor] + offset) % values.length] += tileBytes[tensor];
    }
    return values;
  }
}

/** A program compiled for the machine. */
class Device {
  constructor(plain) {
    Object.assign(this, plain);
    this.stages = plain.stages.map((stage) => new Stage(stage, this));
    this.ipus = plain.ipus.map((ipu) => new Ipu(ipu, this));
    this.isPipeline = plain.stages.length > 1 && !plain.inStep;
    this.phases = plain.words.phases;
    const { micro_batches: batches } = plain.figures;
    this.times = [batches, batches, 1];
  }

  /** Returns the cycles of a run by layer and phase, the most expensive layer first. */
  layers() {
    const found = new Map();
    for (const stage of this.stages) {
      for (let step = 0; step < stage.count; step += 1) {
        const layer = stage.layer(step);
        if (!found.has(layer))
          found.set(layer, { layer, cycles: [0, 0, 0], flops: 0, peak: 0, bytes: 0, plans: new Set() });
        const entry = found.get(layer);
        const before = [...entry.cycles];
        addStep(entry, stage, step, this.times);
        if (this.inStep && stage.index) entry.cycles = before; // The same time.
      }
    }
    return [...found.values()].sort((a, b) => sum(b.cycles) - sum(a.cycles) || (a.layer < b.layer ? -1 : 1));
  }
}

/** Adds the figures of a step to those of a layer. */
function addStep(entry, stage, step, times) {
  const phase = stage.steps.phase[step];
  entry.cycles[phase] += times[phase] * stage.cycles[step];
  entry.flops += times[phase] * stage.steps.repeats[step] * stage.steps.flops[step];
  entry.peak += times[phase] * stage.steps.peakCycles[step];
  entry.bytes += times[phase] * stage.total(step, "bytes");
  const plan = stage.text(stage.steps.plan[step]);
  if (plan) entry.plans.add(plan);
}
