import t from 'tap'

t.test('a test', async t => {
  t.pass('before the end')
  await new Promise(resolve => setTimeout(resolve, 100))
  process.stderr.write('its last words\n')
  process.abort()
})
