import { fileURLToPath, pathToFileURL } from 'node:url'

/** What the build makes; `npm test` builds first. */
export const built = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))

/**
 * What runs `usher` in tests: few large files that the runner has made of the build, which
 * start in half of the processor time; without the runner (coverage) the build.
 */
export const usherProgram = process.env['USHER_TEST_PROGRAM'] ?? built

/** The same for a thread of the Linux relay. */
export const workerFile =
  usherProgram === built
    ? new URL('../../dist/relay/sockets/linux/worker-main.js', import.meta.url)
    : new URL('worker-main.js', pathToFileURL(usherProgram))

const loopbackEndpoints = new URL('loopback-endpoints.mjs', import.meta.url).href
const withLoopback = process.env['USHER_TEST_PROGRAM_LOOPBACK']

/** The same, with options of Node before it, for one whose endpoints are on loopback. */
export const loopbackUsher: readonly string[] =
  withLoopback === undefined ? [`--import=${loopbackEndpoints}`, built] : [withLoopback]
