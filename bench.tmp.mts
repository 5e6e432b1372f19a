import { monitorEventLoopDelay, performance, PerformanceObserver } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { statusOfMany } from './test/support/page-fixture.ts'
import { Viewers } from './src/observe/page/viewers.ts'
import { systemClock } from './src/util/clock.ts'
new PerformanceObserver(l => { for (const e of l.getEntries()) if (e.duration > 5) console.log('gc', (e as any).detail?.kind, e.duration.toFixed(1)) }).observe({ entryTypes: ['gc'] })
const { status } = statusOfMany(10_000)
const viewers = new Viewers({ status, clock: systemClock, log: console as never })
let bytes = 0
const n = Number(process.argv[2] ?? 1)
await sleep(500)
const h = monitorEventLoopDelay({ resolution: 1 }); h.enable()
let last = performance.now(); let worst = 0
const tick = () => { const now = performance.now(); if (now - last > 12) console.log('late', (now - last).toFixed(1)); last = now; if (!over) setImmediate(tick) }
let over = false
tick()
for (let i = 0; i < n; i++) viewers.join()!.on('data', d => bytes += d.length)
await sleep(3000); console.log('first 3 s', bytes, (h.max/1e6).toFixed(1)); h.reset(); bytes = 0
const cpu = process.cpuUsage(); over = true; await sleep(20)
h.reset()
await sleep(10_000)
const u = process.cpuUsage(cpu)
console.log('10 s', bytes, 'worst', (h.max/1e6).toFixed(1), 'p99', (h.percentile(99)/1e6).toFixed(1), 'cpu %', ((u.user+u.system)/1e5).toFixed(1))
process.exit()
