import t from 'tap'

t.setTimeout(2000)

t.test('it spins', async t => {
  t.pass('before that')
  await new Promise(resolve => setTimeout(resolve, 100))
  for (;;);
})
