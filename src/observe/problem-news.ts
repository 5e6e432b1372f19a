import type { Problem } from '../model/snapshot.ts'

/** Which of all problems have not been there before. */
export class ProblemNews {
  #known: ReadonlySet<string> = new Set()

  get hasProblems(): boolean {
    return this.#known.size > 0
  }

  /** Those that were not among the problems of the last call. */
  take(problems: readonly Problem[]): readonly Problem[] {
    if (problems.length === 0 && !this.hasProblems) return []
    const before = this.#known
    const byKey = new Map(problems.map(problem => [keyOf(problem), problem]))
    this.#known = new Set(byKey.keys())
    return [...byKey].flatMap(([key, problem]) => (before.has(key) ? [] : [problem]))
  }
}

const keyOf = ({ object, field, message }: Problem): string =>
  `${object} ${field} ${message}`
