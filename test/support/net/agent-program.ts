import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

/**
 * Writes what an agent runs as one file of JavaScript: there are several of them in each
 * test, and to load TypeScript each would take longer than all of its dialling.
 */
export const writeAgentProgram = async (folder: string): Promise<string> => {
  const outfile = join(folder, 'agent.mjs')
  await build({
    entryPoints: [fileURLToPath(new URL('agent-process.ts', import.meta.url))],
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    logLevel: 'error',
  })
  return outfile
}
