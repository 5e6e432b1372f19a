import { createRequire } from 'node:module'
import { NativeMemory } from './native-memory.ts'

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
 * To ask for errno by a second call would leave room for others in between: a step of the garbage
 * collector that unmaps memory has an errno too. Between a call's return and a read of memory
 * there is nothing: -1 is a small integer, which V8 makes without allocating. (errno(3); both
 * glibc and musl have the function.)
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
