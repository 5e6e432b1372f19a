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
