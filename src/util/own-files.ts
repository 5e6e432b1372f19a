/**
 * Where the build puts what it packs: each program of Usher is one file of this folder. What runs
 * from the sources, as tests do, starts the same files.
 */
const packed = new URL(
  import.meta.url.endsWith('.ts') ? '../../dist/' : './',
  import.meta.url,
)

/** A program by its name in `scripts/pack.ts`. */
export const programFile = (name: string): URL => new URL(`${name}.js`, packed)

/** What browsers get. */
export const pageFolder = new URL('page/', packed)

/** A file that is shipped as it is, by its path in the project. */
export const shippedFile = (path: string): URL => new URL(`../${path}`, packed)
