"""Functions behind the faces: recurrent cells, CTC, sampled losses, tables on the host."""
