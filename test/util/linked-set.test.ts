import * as fc from 'fast-check'
import t from 'tap'
import { type Linked, LinkedSet } from '../../src/util/linked-set.ts'

class Member implements Linked<Member> {
  setNext: Member | undefined = undefined
  setPrevious: Member | undefined = undefined
}

const areSame = (some: readonly Member[], others: readonly Member[]): boolean =>
  some.length === others.length && some.every((member, i) => member === others[i])

t.test('it is as a Set, whatever is done while it is gone through', async () => {
  const steps = fc.array(
    fc.record({ add: fc.boolean(), of: fc.nat(9), within: fc.nat(3) }),
  )
  fc.assert(
    fc.property(steps, all => {
      const members = Array.from({ length: 10 }, () => new Member())
      const [linked, set] = [new LinkedSet<Member>(), new Set<Member>()]
      const take = ({ add, of }: { add: boolean; of: number }): boolean => {
        const member = members[of] as Member
        if (linked.has(member) !== set.has(member)) return false
        if (!add) return linked.delete(member) === set.delete(member)
        if (!set.has(member)) linked.add(member)
        set.add(member)
        return true
      }
      for (let at = 0; at < all.length;) {
        const [one, other] = [linked[Symbol.iterator](), set[Symbol.iterator]()]
        // Some of the steps between the members of one iteration, which may be left early.
        for (let left = all[at]?.within ?? 0; left >= 0 && at < all.length; left -= 1) {
          if (one.next().value !== other.next().value) return false
          if (!take(all[at] as (typeof all)[number])) return false
          at += 1
        }
        const isSame = at % 2 === 0 || areSame([...one], [...other])
        one.return(undefined)
        if (!isSame || linked.size !== set.size) return false
        if (!areSame([...linked], [...set])) return false
      }
      return true
    }),
    { numRuns: 500 },
  )
})

t.test('who has gone knows none of those that are there', async t => {
  const [a, b, c] = [new Member(), new Member(), new Member()]
  const set = new LinkedSet<Member>()
  for (const one of [a, b, c]) set.add(one)
  set.delete(b)
  t.strictSame([b.setNext, b.setPrevious], [undefined, undefined])
  t.strictSame([...set], [a, c])
})
