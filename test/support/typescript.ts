/** The flag of Node with which a process that a test starts loads TypeScript as the test does. */
export const typescript = `--import=${import.meta.resolve('../../scripts/tests/typescript.mjs')}`
