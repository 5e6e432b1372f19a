import type { Problem } from '../model/snapshot.ts'
import type { ClusterEvent } from '../source/kubernetes/event-body.ts'
import { firstFew } from '../util/printable.ts'
import { ProblemNews } from './problem-news.ts'

/** Services that get an Event at once; of more there are only problems in the status. */
const mostAtOnce = 20

/** Tells the owners of Services which of their annotations have no effect, each once. */
export class AnnotationEvents {
  readonly #emit: (event: ClusterEvent) => void
  readonly #news = new ProblemNews()

  constructor(emit: (event: ClusterEvent) => void) {
    this.#emit = emit
  }

  /** To be called with all problems that there are now. */
  say(problems: readonly Problem[]): void {
    const news = this.#news.take(problems.filter(isOfAnnotations))
    const byObject = new Map<string, Problem[]>()
    for (const problem of news) {
      const found = byObject.get(problem.object) ?? []
      byObject.set(problem.object, [...found, problem])
    }
    for (const [object, found] of [...byObject].slice(0, mostAtOnce))
      this.#emit(eventOf(object, found))
  }
}

const service = /^Service ([^/]+)\/(.+)$/

const isOfAnnotations = ({ object, field }: Problem): boolean =>
  field.startsWith('metadata.annotations') && service.test(object)

const eventOf = (object: string, problems: readonly Problem[]): ClusterEvent => {
  const [, namespace = '', name = ''] = service.exec(object) ?? []
  return {
    type: 'Warning',
    reason: 'AnnotationWithoutEffect',
    action: 'Serve',
    message: firstFew(problems.map(({ field, message }) => `${field} ${message}`)),
    regarding: { kind: 'Service', namespace, name },
  }
}
