import {
  mkdirSync,
  renameSync,
  statSync,
  readFileSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/** What the runner has compiled, by the path of the source. */
export const top = fileURLToPath(new URL('../../', import.meta.url))
const folder = `${top}.tap/compiled/`

const outputOf = path => `${folder}${relative(top, path)}.js`

/** When a source was written, in whole milliseconds. */
const versionOf = path => Math.floor(statSync(path).mtimeMs)

/**
 * Of which version an output is: that is its time, too. Rounded, as utimes() takes seconds, and
 * most milliseconds have no exact fraction of one: what comes back may be a little less.
 */
const versionIn = output => Math.round(statSync(output).mtimeMs)

/** The file with what was made of this source; undefined when there is none of this version. */
export const compiledOf = path => {
  const output = outputOf(path)
  try {
    return versionIn(output) === versionOf(path) ? output : undefined
  } catch {
    return undefined
  }
}

const optionsOf = path => ({
  loader: 'ts',
  format: 'esm',
  target: 'node20',
  sourcemap: 'inline',
  sourcesContent: false,
  sourcefile: resolve(path),
  tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true } },
})

/** Compiles what has changed since; all that tests may load. */
export const compile = async paths => {
  const { transform, stop } = await import('esbuild')
  const one = async path => {
    const seconds = versionOf(path) / 1000
    const { code } = await transform(readFileSync(path, 'utf8'), optionsOf(path))
    const output = outputOf(path)
    mkdirSync(dirname(output), { recursive: true })
    const written = `${output}.${process.pid}`
    writeFileSync(written, code)
    utimesSync(written, seconds, seconds)
    renameSync(written, output)
  }
  await Promise.all(paths.filter(path => compiledOf(path) === undefined).map(one))
  await stop()
}

/** Of a file that came after that, or of a process without the runner. */
export const compiledNow = path => {
  const { transformSync } = createRequire(import.meta.url)('esbuild')
  return transformSync(readFileSync(path, 'utf8'), optionsOf(path)).code
}
