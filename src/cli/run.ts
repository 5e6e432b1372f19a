import type { OptionsOf } from '../config/typed.ts'
import { manifestSource } from '../source/manifests/manifest-source.ts'
import { serve } from './serve.ts'

/** `usher run`: the node proxy, with manifest files for a source. */
export const run = (options: OptionsOf<'run'>): Promise<number> =>
  serve(
    log =>
      manifestSource({
        paths: options.manifests,
        onSkipped: what => log.info({ what }, 'skipped: Usher has no use for it'),
        onWarning: what => log.warn({ what }, 'manifest files'),
      }),
    options,
    options,
  )
