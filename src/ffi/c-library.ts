import { createRequire } from 'node:module'

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

/** What is used of koffi; its own types are not there where it is not installed. */
interface Koffi {
  load(library: null): Library
  address(bytes: Buffer): bigint
  view(address: bigint, bytes: number): ArrayBuffer
}

interface Library {
  func(prototype: 'void *__errno_location()'): () => bigint
  func(prototype: string): (...args: number[]) => number
}

/** The C library that this process has loaded already, be it glibc or musl. */
export interface CLibrary {
  /** A function by its C prototype; on failure it returns -1, and `errno` says why. */
  func(prototype: string): (...args: number[]) => number
  /** The errno of the thread that asks, as memory. */
  readonly errno: Int32Array
  allocate(bytes: number): NativeMemory
}

/**
 * Throws where koffi is not installed, or has no binary for this platform.
 *
 * Whatever V8 does between a system call and the read of errno may overwrite it: it unmaps memory,
 * and its mutexes (of Abseil, seen in Node 26) are futexes by syscall(2), that leave an EAGAIN.
 * So errno is read from memory, in the function that called and right after: a second call would
 * be such a place, and so is the begin of any function of JavaScript, where V8 takes the code
 * that another thread has compiled. Between the return of a call and a read there is nothing: -1
 * is a small integer, which V8 makes without allocating. (errno(3); glibc and musl both have it.)
 */
export const openCLibrary = (): CLibrary => {
  const koffi = createRequire(import.meta.url)('koffi') as Koffi
  const library = koffi.load(null)
  const location = library.func('void *__errno_location()')()
  return {
    func: prototype => library.func(prototype),
    errno: new Int32Array(koffi.view(location, 4)),
    allocate: size => new NativeMemory(size, bytes => Number(koffi.address(bytes))),
  }
}

/** A call's result as the kernel gives it, a negative errno for a failure: `result(call(), errno[0])`. */
export const result = (value: number, errno = 0): number => (value < 0 ? -errno : value)
