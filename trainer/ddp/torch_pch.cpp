// Nothing: precompiled headers belong to a target, and a target has a source. The GPU's modules use them, too, and come
// first.
