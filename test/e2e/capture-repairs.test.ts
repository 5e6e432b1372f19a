// A process of its own: it mostly waits.
import t from 'tap'
import { netnsProblem } from '../support/netns.ts'
import { until } from '../support/until.ts'
import { dualService, makeOneNode } from './capture/one-node.ts'

const why = await netnsProblem('iptables', 'nft', 'conntrack')
const skip = why !== '' && why
t.jobs = 3

const web = ['10.96.0.40', 'fd00:96::40']
const next = ['10.96.0.41', 'fd00:96::41']
const rarely = '--sync-period=10m'

t.test('local: addresses that another program flushes', { skip }, async t => {
  const { node, manifests, start, answers, dial } = await makeOneNode(t, 'flushed')
  await manifests.write(...dualService('web', web))
  const usher = start('--capture=local', rarely)
  await usher.ready(2)
  for (const each of web) await answers(each, 5000)
  await node.run('ip', ['route', 'flush', 'table', 'local', 'proto', '117'])
  await node.run('ip', ['-6', 'addr', 'del', `${web[1]}/128`, 'dev', 'lo'])
  await manifests.write(
    ...dualService('web', web, { externalIPs: ['203.0.113.9'] }),
    ...dualService('next', next),
  )
  for (const each of [...web, ...next, '203.0.113.9']) await answers(each, 8000)
  const { problems, servicePorts } = await usher.status()
  t.strictSame(problems, [])
  t.notOk(JSON.stringify(servicePorts).includes('not captured'))
  await node.run('ip', ['addr', 'add', '203.0.113.77/32', 'dev', 'eth0'])
  await manifests.write(...dualService('web', web, { externalIPs: ['203.0.113.77'] }))
  await answers('203.0.113.77', 8000)
  await node.run('ip', ['addr', 'del', '203.0.113.77/32', 'dev', 'eth0'])
  t.equal((await dial('203.0.113.77')).result !== 'answer', true)
  await answers('203.0.113.77', 8000)
})

for (const capture of ['nftables', 'iptables'])
  t.test(`${capture}: the proxy addresses are taken away`, { skip }, async t => {
    const { node, manifests, start, answers } = await makeOneNode(
      t,
      `away-${capture.slice(0, 3)}`,
    )
    await manifests.write(...dualService('web', web))
    const usher = start(`--capture=${capture}`, rarely)
    await usher.ready(2)
    await node.run('ip', ['route', 'flush', 'table', 'local', 'proto', '117'])
    await node.run('ip', ['-6', 'addr', 'del', 'fd75:7368:6572::1/128', 'dev', 'lo'])
    await manifests.write(...dualService('web', web), ...dualService('next', next))
    for (const each of [...web, ...next]) await answers(each, 8000)
    const { problems, servicePorts } = await usher.status()
    t.strictSame(problems, [])
    t.notOk(JSON.stringify(servicePorts).includes('not captured'))
  })

t.test(
  'local: a VIP that another program has is a problem, not a red node',
  { skip },
  async t => {
    const { agent, manifests, start, answers } = await makeOneNode(t, 'taken')
    await agent.serve('theirs', ['127.0.0.1', '198.51.100.1'], 80)
    const externalIPs = ['127.0.0.1', '198.51.100.1']
    await manifests.write(...dualService('web', web, { externalIPs }))
    const usher = start('--capture=local')
    for (const each of web) await answers(each, 20_000)
    await until('all is applied', async () => (await usher.status()).healthy)
    const { problems } = await usher.status()
    const message = /cannot listen on .*:80: EADDRINUSE/
    t.match(problems, [{ message }, { message }])
    t.equal(problems.length, 2)
  },
)
