import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { compiledNow, compiledOf } from './compiled.mjs'
import { packedTap } from './packed-tap.mjs'

/** TypeScript is named as such. */
export const resolve = (specifier, context, nextResolve) => {
  const { parentURL } = context
  const url = urlOf(specifier, parentURL)
  if (url === undefined) return nextResolve(specifier, context)
  return { url, format: 'module', shortCircuit: true }
}

const urlOf = (specifier, parentURL = '') => {
  if (specifier === 'tap' && parentURL.endsWith('.ts')) return packedTap
  if (!specifier.endsWith('.ts') || !/^(\.|file:)/.test(specifier)) return undefined
  return new URL(specifier, parentURL || undefined).href
}

export const load = (url, context, nextLoad) => {
  if (!url.startsWith('file:') || !url.endsWith('.ts')) return nextLoad(url, context)
  const path = fileURLToPath(url)
  if (path.includes('/node_modules/')) return nextLoad(url, context)
  const kept = compiledOf(path)
  const source = kept === undefined ? compiledNow(path) : readFileSync(kept, 'utf8')
  return { format: 'module', shortCircuit: true, source }
}
