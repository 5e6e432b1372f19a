import { arch, platform } from 'node:os'
import { openCLibrary, result } from './c-library.ts'
import type { NativeMemory } from './syscalls.ts'

/**
 * bpf(2), which has no function of its own in C libraries. `command` is one of enum bpf_cmd,
 * `attributes` the address of a union bpf_attr. Results are the kernel's: zero or more for
 * success, a negative errno otherwise.
 */
export interface BpfCall {
  call(command: number, attributes: number, length: number): number
  allocate(bytes: number): NativeMemory
}

/** Its number (syscalls(2)). */
const numbers: Readonly<Record<string, number>> = { x64: 321, arm64: 280 }

/** Throws where there is no FFI, or it is another platform. */
export const loadBpfCall = (): BpfCall => {
  const number = platform() === 'linux' ? numbers[arch()] : undefined
  if (number === undefined)
    throw new Error(`bpf(2) is not supported for ${platform()} on ${arch()}`)
  const library = openCLibrary()
  const { errno } = library
  // Without `...`: variadic functions take their arguments otherwise on some platforms.
  const syscall = library.func('int64_t syscall(int64_t, int64_t, int64_t, int64_t)')
  return {
    call: (command, attributes, length) =>
      result(syscall(number, command, attributes, length), errno[0]),
    allocate: bytes => library.allocate(bytes),
  }
}
