import type { OptionsOf } from '../config/typed.ts'
import type { Source } from '../source/source.ts'
import type { DemoDeps } from './run-demo.ts'

const scratch = '/tmp/demo-scratch/fake.ts'

export const exampleManifest = (path: string): Source => {
  let inner: Source | undefined
  return {
    start: async sink => {
      const { manifest } = await import(scratch)
      inner = manifest((await import('node:fs')).readFileSync(path, 'utf8')) as Source
      await inner.start(sink)
    },
    reload: () => {},
    status: () => ({ name: 'x', synced: true, lastGoodAt: 1, error: '' }),
    close: async () => {},
  }
}

export const proxyOver =
  (_options: OptionsOf<'demo'>): DemoDeps['startProxy'] =>
  async (source, only) =>
    (await import(scratch)).fakeProxy(source, only)
