import t from 'tap'

t.test('a test', async () => {
  throw new TypeError('thrown in a test')
})
