import { fileURLToPath } from 'node:url'

/** What the build makes; the runner of tests builds first. */
export const usherProgram = fileURLToPath(new URL('../../dist/usher.js', import.meta.url))

/** The same, made to take endpoints on loopback, which no API server would have. */
export const loopbackUsher: string =
  process.env['USHER_TEST_LOOPBACK'] ??
  fileURLToPath(new URL('../../.tap/loopback/dist/usher.js', import.meta.url))
