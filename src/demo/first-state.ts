import type { Change } from '../model/service.ts'
import type { Problem } from '../model/snapshot.ts'
import type { Source } from '../source/source.ts'
import { DemoError } from './demo-error.ts'

/**
 * Reads a source once and closes it: the changes that make up its first state.
 * @throws DemoError when any of its objects is refused, or it has no good state.
 */
export const firstState = async (source: Source): Promise<readonly Change[]> => {
  const changes: Change[] = []
  let found: readonly Problem[] = []
  try {
    await source.start({
      apply: batch => void changes.push(...batch),
      synced: () => {},
      problems: problems => {
        found = problems
      },
    })
  } catch (error) {
    throw new DemoError(error instanceof Error ? error.message : String(error))
  } finally {
    await source.close()
  }
  const problem = found[0]
  if (problem) {
    const { object, field, message } = problem
    throw new DemoError([object, field, message].filter(part => part !== '').join(': '))
  }
  return changes
}
