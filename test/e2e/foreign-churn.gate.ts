// A process of its own: long, and it mostly waits.
import t from 'tap'
import { netnsProblem } from '../support/netns.ts'
import { foreignChurn } from './capture/foreign-churn.ts'
import {
  iptablesCapture,
  iptablesMode,
  localCapture,
  nftablesCapture,
  nftablesMode,
  type Way,
} from './capture/ways.ts'

// `npm run test:foreign`: Services change while another program flushes rules, adds some of its own that
// iptables can't read, and takes addresses away. Minutes, so apart from `npm test`.

/** Of each way; which actions come when; labels of ways with commas between them, '' for all. */
const {
  USHER_FOREIGN_SECONDS: seconds = '60',
  USHER_FOREIGN_SEED: seed = '7',
  USHER_FOREIGN_WAYS: chosen = '',
} = process.env

const ways: readonly Way[] = [
  iptablesMode('nft'),
  nftablesMode,
  nftablesCapture,
  iptablesCapture('nft'),
  localCapture,
]
const why = await netnsProblem('nft', 'iptables', 'conntrack')
const ms = Number(seconds) * 1000

t.setTimeout(ms * 3 + 120_000)
// They mostly wait.
t.jobs = 3

for (const way of ways.filter(
  ({ label }) => chosen === '' || chosen.split(',').includes(label),
))
  t.test(
    `Services change while another program disturbs: ${way.label}, seed ${seed}`,
    { skip: why !== '' && why },
    async t => {
      const { wrong, untold, left, ...figures } = await foreignChurn(t, way, {
        ms,
        seed: Number(seed),
      })
      t.comment(`${way.label}: ${JSON.stringify(figures)}`)
      t.strictSame(wrong, [], 'no VIP is wrong for longer than 5 s')
      t.strictSame(untold, [], 'log or status tell of each that touched what is Usher’s')
      const few = figures.overwritten <= 1 + figures.harms / 20
      t.ok(few, 'nearly all of them are told of, and not overwritten by chance')
      t.strictSame(left, [], 'nothing is left at the end')
    },
  )
