import t from 'tap'
import { ElementChanges } from '../../../src/kernel/elements/element-changes.ts'
import { elementTexts } from '../../../src/kernel/nft/element-texts.ts'
import { removeText, SharedParts } from '../../../src/kernel/nft/parts.ts'
import { WantedTable } from '../../../src/kernel/nft/wanted-table.ts'
import type { ServicePort } from '../../../src/model/snapshot.ts'
import { servicePort } from '../../support/service-ports.ts'

const element = (key: string, value = '') => ({ set: 's', key, value })

t.test('only what truly changes is written, what goes first', async t => {
  const changes = new ElementChanges()
  changes.gone(element('same', 'x'))
  changes.come(element('same', 'x'))
  t.same(await elementTexts('ip t', changes), [])
  changes.come(element('other', 'new'))
  changes.gone(element('other', 'old'))
  changes.come(element('more'))
  t.same(await elementTexts('ip t', changes), [
    'delete element ip t s { other }\nadd element ip t s { other : new, more }\n',
  ])
  t.same([...changes.growth()], [['s', 1]])
})

t.test('many elements go in lots of a thousand', async t => {
  const changes = new ElementChanges()
  for (let n = 0; n < 2500; n++) changes.come(element(String(n)))
  const texts = await elementTexts('ip t', changes)
  t.same(
    texts.map(text => text.split(',').length),
    [1000, 1000, 500],
  )
})

t.test('an element of several goes with the last of them', async t => {
  const table = new WantedTable('ip t', () => ({
    elements: [],
    shared: [element('a')],
    parts: [],
  }))
  const [one, other] = [servicePort('one'), servicePort('other')]
  const texts = async (...all: ServicePort[]) =>
    elementTexts('ip t', (await table.take(all, 0)).elements)
  t.same(await texts(one, other), ['add element ip t s { a }\n'])
  t.same(await texts(other), [])
  t.same(await texts(), ['delete element ip t s { a }\n'])
})

t.test('a part rests before it goes, and is written when it is other', async t => {
  const parts = new SharedParts()
  const chain = (...rules: string[]) => ({ kind: 'chain', name: 'c', rules }) as const
  parts.enter(chain('one'))
  parts.enter(chain('one'))
  t.same(parts.takeFresh(), [chain('one')])
  parts.enter(chain('one'))
  t.same(parts.takeFresh(), [])
  parts.enter(chain('two'))
  t.same(parts.takeFresh(), [chain('two')])
  for (let i = 0; i < 4; i++) parts.leave(chain('two'), 1000)
  t.same(parts.takeIdle(5999), [])
  t.same(parts.takeIdle(6000), [{ kind: 'chain', name: 'c' }])
  t.same(parts.takeIdle(6000), [])
  parts.found('set', 'old', 0)
  const idle = parts.takeIdle(5000)
  t.equal(removeText('ip t', idle), 'delete set ip t old\n')
})
