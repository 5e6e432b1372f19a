import t from 'tap'

t.test('outer', async t => {
  t.equal(1, 1, 'this is so')
  await t.test('inner', async t => {
    t.strictSame({ a: 1 }, { a: 2 }, 'this is not')
  })
  t.test('elsewhere', { skip: 'there is no elsewhere' }, async () => {})
})
