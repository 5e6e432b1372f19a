import { arch, platform } from 'node:os'
import { refusedCall } from './try-calls.ts'
import { structLayout, type StructLayout } from '../../ffi/struct-layout.ts'
import { loadSyscalls, type Syscalls } from '../../ffi/syscalls.ts'

export interface LinuxRelayParts {
  readonly calls: Syscalls
  readonly layout: StructLayout
}

/** What the Linux relay stands on, which tests replace. */
export interface LinuxRelayGround {
  readonly layout: StructLayout | undefined
  /** Throws when koffi can't be loaded. */
  readonly load: () => Syscalls
}

/**
 * What the Linux relay needs, or why it can't run here, in words that follow a colon. Takes
 * some 25 ms, nearly all of it for loading koffi. Never throws.
 */
export const probeLinuxRelay = (
  ground: Partial<LinuxRelayGround> = {},
): LinuxRelayParts | { readonly why: string } => {
  const { layout, load } = { layout: structLayout(), load: loadSyscalls, ...ground }
  if (layout === undefined)
    return {
      why: `it is for Linux on x86-64 or arm64, and this is ${platform()} on ${arch()}`,
    }
  let calls: Syscalls
  try {
    calls = load()
  } catch (error) {
    return { why: whyNotLoaded(error) }
  }
  const refused = refusedCall(calls, layout)
  return refused === '' ? { calls, layout } : { why: refused }
}

const whyNotLoaded = (error: unknown): string => {
  const { code, message } = error as NodeJS.ErrnoException
  if (code === 'MODULE_NOT_FOUND')
    return 'the optional package koffi, which makes its system calls, is not installed; `npm install` without --omit=optional has it'
  // Some of koffi's and of the dynamic linker's messages have several lines.
  return `koffi, which makes its system calls, can't be loaded: ${message.split('\n', 1).join('')}`
}
