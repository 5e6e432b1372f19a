import t from 'tap'

t.setTimeout(2000)

t.test('it waits', async () => {
  setInterval(() => {}, 1000)
  await new Promise(() => {})
})
