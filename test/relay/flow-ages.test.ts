import * as fc from 'fast-check'
import t from 'tap'
import { FlowAges, LruList, Place } from '../../src/relay/flow-ages.ts'

const count = 6

const anyOf = fc.nat(count - 1)

/** Empties a list from its old end. */
const takeAll = (
  list: LruList<number>,
  placeOf: (which: number) => Place<number>,
): number[] => {
  const taken: number[] = []
  for (let { oldest } = list; oldest !== undefined; oldest = list.oldest) {
    taken.push(oldest)
    list.delete(placeOf(oldest))
  }
  return taken
}

const isSame = (a: readonly unknown[], b: readonly unknown[]): boolean =>
  a.length === b.length && a.every((one, i) => one === b[i])

class Flow {
  readonly place: Place<Flow> = new Place<Flow>(this)
  answered = false
}

t.test('the list is what a naive list would be, whatever is done to it', async () => {
  const step = fc.record({ what: fc.constantFrom('push', 'remove'), which: anyOf })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), steps => {
      const list = new LruList<number>()
      const places = Array.from({ length: count }, (_, i) => new Place(i))
      const placeOf = (which: number): Place<number> => {
        const place = places[which]
        if (place === undefined) throw new Error(`no item ${which}`)
        return place
      }
      let model: number[] = []
      for (const { what, which } of steps) {
        model = model.filter(one => one !== which)
        if (what === 'push') {
          list.push(placeOf(which))
          model.push(which)
        } else list.delete(placeOf(which))
        if (list.size !== model.length || list.oldest !== model[0]) return false
        if (places.some(place => list.has(place) !== model.includes(place.item)))
          return false
      }
      return isSame(model, takeAll(list, placeOf))
    }),
  )
})

t.test('flows are aged in two stages as a naive model ages them', async () => {
  const step = fc.record({
    what: fc.constantFrom('push', 'push', 'answer', 'remove'),
    which: anyOf,
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), steps => {
      const ages = new FlowAges<Flow>(flow => flow.place)
      const flows = Array.from({ length: count }, () => new Flow())
      /** Oldest first, both stages together. */
      let model: Flow[] = []
      for (const { what, which } of steps) {
        const flow = flows[which]
        if (flow === undefined) return false
        model = model.filter(one => one !== flow)
        if (what !== 'push') ages.remove(flow)
        if (what === 'answer') flow.answered = true
        if (what !== 'remove') {
          ages.push(flow)
          model.push(flow)
        }
        const unanswered = model.find(one => !one.answered)
        const answered = model.find(one => one.answered)
        if (ages.size !== model.length) return false
        if (ages.oldestUnanswered !== unanswered) return false
        if (ages.oldestAnswered !== answered) return false
        const waiting = model.filter(one => !one.answered).length
        const isFlood = waiting > model.length / 4
        const first = isFlood ? unanswered : (answered ?? unanswered)
        if (ages.mostDispensable !== first) return false
      }
      return true
    }),
  )
})

t.test('one item may stand in two lists, through a place in each', async t => {
  const flow = { name: 'flow' }
  const [one, other] = [new LruList<typeof flow>(), new LruList<typeof flow>()]
  const [place, otherPlace] = [new Place(flow), new Place(flow)]
  one.push(place)
  other.push(otherPlace)
  one.delete(place)
  t.equal(one.oldest, undefined)
  t.equal(other.oldest, flow)
})

t.test('pushing the youngest again, or removing twice, changes nothing', async t => {
  const list = new LruList<string>()
  const [a, b] = [new Place('a'), new Place('b')]
  for (const place of [a, b, b]) list.push(place)
  t.match(list, { size: 2, oldest: 'a' })
  for (const place of [a, a]) list.delete(place)
  t.match(list, { size: 1, oldest: 'b' })
})
