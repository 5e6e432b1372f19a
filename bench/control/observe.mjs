// Loaded into Usher before its own code (node --import): tells the bench, on descriptor 3,
// when each sync was applied and for how long the event loop stood still.
import diagnostics from 'node:diagnostics_channel'
import { Socket } from 'node:net'
import { monitorEventLoopDelay } from 'node:perf_hooks'

const resolutionMs = 5
const reportEveryMs = 50

const out = new Socket({ fd: 3, readable: false, writable: true })
out.on('error', () => {})
out.unref()
const tell = message => out.write(`${JSON.stringify(message)}\n`)

const unixNow = () => performance.timeOrigin + performance.now()

diagnostics.subscribe('usher:applied', ({ triggerTimes }) => {
  tell({ kind: 'applied', at: unixNow(), triggerTimes })
})

const delay = monitorEventLoopDelay({ resolution: resolutionMs })
delay.enable()
let from = unixNow()
setInterval(() => {
  // Each value holds the interval between two looks too.
  const blockedMs = Math.max(0, delay.max / 1e6 - resolutionMs)
  delay.reset()
  tell({ kind: 'loop', from, blockedMs })
  from = unixNow()
}, reportEveryMs).unref()
