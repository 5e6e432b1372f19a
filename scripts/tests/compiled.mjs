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

const secondsOf = path => {
  const { mtimeMs } = statSync(path)
  return Math.floor(mtimeMs) / 1000
}

/** The file with what was made of this source; undefined when there is none of this version. */
export const compiledOf = path => {
  const output = outputOf(path)
  try {
    return secondsOf(output) === secondsOf(path) ? output : undefined
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
    const seconds = secondsOf(path)
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
