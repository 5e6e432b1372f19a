import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Bpf } from './bpf.ts'

/** Where objects of the kernel's are found again by names, in layouts that don't mix. */
export interface Pins {
  /**
   * Opens one that is there, and lets `found` have it; else, and where `found` says that it is of no
   * use, makes it, and keeps it there.
   */
  readonly open: (
    layout: string,
    name: string,
    make: () => number,
    found?: (descriptor: number) => boolean,
  ) => number
  /** Whether it is still found there. */
  readonly has: (layout: string, name: string) => boolean
  /** The path of its file; '' where nothing is kept. */
  readonly path: (layout: string, name: string) => string
  /** Takes out all but one layout, or all. */
  readonly removeOthers: (layout?: string) => void
}

/** Where those of connect-time steering are, below a bpffs. */
export const pinsFolder = (bpffs: string): string => join(bpffs, 'usher-connect-time')

/** Nothing is kept: objects end with who made them. */
export const noPins: Pins = {
  open: (_layout, _name, make) => make(),
  has: () => true,
  path: () => '',
  removeOthers: () => {},
}

/** Files of a bpffs, below a folder of its own. Throws where the kernel refuses. */
export const filePins = (bpf: Bpf, folder: string): Pins => ({
  open: (layout, name, make, found = () => true) => {
    mkdirSync(join(folder, layout), { recursive: true, mode: 0o700 })
    const path = join(folder, layout, name)
    const known = bpf.pinned(path)
    if (known !== undefined) {
      if (closedUnless(bpf, known, () => found(known))) return known
      rmSync(path)
    }
    const made = make()
    closedUnless(bpf, made, () => {
      bpf.pin(made, path)
      return true
    })
    return made
  },
  has: (layout, name) => existsSync(join(folder, layout, name)),
  path: (layout, name) => join(folder, layout, name),
  removeOthers: layout => {
    for (const other of existsSync(folder) ? readdirSync(folder) : [])
      if (other !== layout) rmSync(join(folder, other), { recursive: true })
    if (layout === undefined) rmSync(folder, { recursive: true, force: true })
  },
})

/** Closes a descriptor where it turns out to be of no use, or that fails. */
const closedUnless = (bpf: Bpf, descriptor: number, isUseful: () => boolean): boolean => {
  let isKept = false
  try {
    isKept = isUseful()
  } finally {
    if (!isKept) bpf.close(descriptor)
  }
  return isKept
}
