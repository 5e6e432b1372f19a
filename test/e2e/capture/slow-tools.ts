import { readdir, readlink, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'

/** Those that only look are called far more often, and change nothing. */
const changesSomething = `case "$*" in
  *-save*|*list*|*--version*|*-V*|*show*|*-S*|*-L*|*--dump*|*monitor*) ;;
  *) sleep`

/**
 * Makes every tool in the directory wait before it changes anything, as on a node with too
 * much to do: what is between two changes lasts for so long.
 */
export const slowTools = async (directory: string, seconds: number): Promise<void> => {
  for (const name of await readdir(directory)) {
    const path = join(directory, name)
    const program = await readlink(path)
    // One program has several names, and goes by what it is called with.
    const called = basename(program).startsWith('xtables-')
      ? `${program} ${name}`
      : program
    const text = `#!/bin/sh
${changesSomething.replace('$*', `${name} $*`)} ${seconds} ;;
esac
exec ${called} "$@"
`
    await rm(path)
    await writeFile(path, text, { mode: 0o755 })
  }
}
