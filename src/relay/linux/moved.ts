type Numbers = Uint8Array | Uint16Array | Uint32Array | Int32Array | Float64Array

/** What a table that grows has so far goes into its larger array, which is given back. */
export const moved = <A extends Numbers>(from: A, to: A): A => {
  to.set(from)
  return to
}
