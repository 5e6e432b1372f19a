export const top: string
export const compile: (paths: readonly string[]) => Promise<void>
export const compiledOf: (path: string) => string | undefined
export const compiledNow: (path: string) => string
