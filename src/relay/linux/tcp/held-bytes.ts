/** In memory of its own, not of Node's pool: it takes up what it holds. */
export const copyOf = (bytes: Buffer): Buffer => {
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(copy)
  return copy
}

/** Without the first `count` bytes. A part keeps the whole from being freed: a small one is copied. */
export const without = (held: Buffer, count: number): Buffer => {
  const left = held.subarray(count)
  return left.length * 2 < left.buffer.byteLength ? copyOf(left) : left
}

/** The memory that it takes up. */
export const sizeOf = (held: Buffer | undefined): number => held?.buffer.byteLength ?? 0
