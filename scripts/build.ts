import { fileURLToPath } from 'node:url'
import { pack } from './pack.ts'
import { packForTests } from './tests/pack-for-tests.ts'

/**
 * `npm run build`: what ships, of the sources; with `--for-tests` what their runner would build,
 * too. Types are checked by `npm run check`.
 */
if (process.argv.includes('--for-tests')) await packForTests()
else await pack(fileURLToPath(new URL('../dist', import.meta.url)))
