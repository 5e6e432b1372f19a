// A process of its own: it mostly waits.
import t from 'tap'
import { netnsProblem } from '../support/netns.ts'
import { until } from '../support/until.ts'
import { crashes, placeTool } from './capture/node-tools.ts'
import { dualService, makeOneNode } from './capture/one-node.ts'

const why = await netnsProblem('iptables', 'nft', 'conntrack')
const skip = why !== '' && why
t.jobs = 2

const works = 'exec /usr/sbin/nft "$@"'

const web = ['10.96.0.40', 'fd00:96::40']
const next = ['10.96.0.41', 'fd00:96::41']

for (const [way, table, runs] of [
  ['--proxy-mode=nftables', 'usher-services', 'iptables'],
  ['--capture=auto', 'usher', 'iptables'],
] as const)
  t.test(`${way}: nft crashes, and works again`, { skip }, async t => {
    const { node, manifests, tools, start, answers, dial } = await makeOneNode(t, 'crash')
    await manifests.write(...dualService('web', web))
    const usher = start(way)
    await usher.ready(2)
    const tables = () => node.run('nft', ['list', 'tables'])
    t.match(await tables(), new RegExp(`${table}\n`))
    await placeTool(tools, 'nft', crashes)
    await manifests.write(...dualService('next', next))
    for (const each of next) await answers(each, 40_000)
    const has = (field: RegExp) => async () => {
      const { problems } = await usher.status()
      return problems.some(one => field.test(one.field) && /killed/.test(one.message))
    }
    await until('it is a problem', has(/nftables/))
    const { mode, capture } = await usher.status()
    t.equal(capture?.name ?? mode, runs)
    t.match(await tables(), new RegExp(`${table}\n`), 'it is in force, indeed')

    await placeTool(tools, 'nft', works)
    await until('it is gone', async () => !/usher/.test(await tables()), 60_000)
    await until('is no problem', async () => (await usher.status()).problems.length === 0)
    t.not((await dial(web[0] ?? '')).result, 'answer', 'the Service that is gone')
    for (const each of next) await answers(each, 5000)
    usher.send('SIGTERM')
    t.match(await usher.exit, { code: 0 })
  })

t.test('an end that can not remove its rules says what stays', { skip }, async t => {
  const { node, manifests, tools, start } = await makeOneNode(t, 'stays')
  await manifests.write(...dualService('web', web))
  const usher = start('--capture=nftables')
  await usher.ready(2)
  await placeTool(tools, 'nft', crashes)
  usher.send('SIGTERM')
  t.match(await usher.exit, { code: 0 })
  const said = usher.records.find(({ msg }) =>
    /not everything could be removed/.test(msg),
  )
  t.match(JSON.stringify(said), /table ip6? usher stays/)
  t.match(await node.run('nft', ['list', 'tables']), /usher\n/)
})
