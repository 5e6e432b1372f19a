/**
 * Memory that the kernel may read and write. It never moves, and lives as long as this
 * object: code that hands its address to the kernel must keep the object (a Buffer without
 * references is collected, and what the kernel then writes corrupts the heap).
 */
export class NativeMemory {
  readonly bytes: Buffer
  readonly view: DataView
  /** The same memory as 32-bit words of the host's byte order. */
  readonly words: Int32Array
  /** Where it lies; below 2^53, as user space ends at 2^47 (2^52 with 52-bit addresses). */
  readonly address: number

  /** `addressOf` is asked once. `size` is rounded up to a multiple of 8. */
  constructor(size: number, addressOf: (bytes: Buffer) => number) {
    const rounded = Math.ceil(size / 8) * 8
    const memory = new ArrayBuffer(rounded)
    this.bytes = Buffer.from(memory)
    this.view = new DataView(memory)
    this.words = new Int32Array(memory)
    this.address = addressOf(this.bytes)
  }
}
