import { ToolError } from './run-tool.ts'

/** Each run removes what comes before the entry that has gone: of 100 000 that expire, few are hit. */
const mostRuns = 50

/**
 * Carries out a run of `conntrack -D` until nothing that it is to remove is left. The tool ends
 * at the first entry that expires between its look and its delete (ENOENT), with all others left.
 * Finding none, which it answers with exit code 1 too, is no failure. Rejects with the tool's
 * other errors, and when entries go faster than 50 runs can follow.
 */
export const removeEntries = async (run: () => Promise<unknown>): Promise<void> => {
  for (let runs = 1; ; runs += 1) {
    try {
      await run()
      return
    } catch (error) {
      if (!(error instanceof ToolError)) throw error
      if (noneThere.test(error.stderr)) return
      if (!hasGone.test(error.stderr) || runs === mostRuns) throw error
    }
  }
}

const noneThere = /\b0 flow entries have been deleted/
const hasGone = /such conntrack doesn't exist/
