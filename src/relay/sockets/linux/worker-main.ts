import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import type { Order, WorkerSetup } from '../../engine/orders.ts'
import { structLayout } from '../../../ffi/struct-layout.ts'
import { loadSyscalls } from '../../../ffi/syscalls.ts'
import { RelayWorker } from '../../engine/worker/relay-worker.ts'

/**
 * How long the loop runs before node's own loop has a turn, in milliseconds: finalizers of
 * collected objects, a debugger and the end of the process wait for that.
 */
const mostMs = 500
/** The same while there is nothing to do: for the end of the process it is woken. */
const longestWaitMs = 10_000

const port = parentPort
const layout = structLayout()
if (port === null || layout === undefined) {
  throw new Error('this is a thread of the Linux relay; it cannot run on its own')
}

const takeOrders = (): readonly Order[] => {
  const orders: Order[] = []
  for (;;) {
    const received = receiveMessageOnPort(port)
    if (received === undefined) return orders
    orders.push(...(received.message as readonly Order[]))
  }
}

const worker = new RelayWorker({
  setup: workerData as WorkerSetup,
  calls: loadSyscalls(),
  layout,
  knowsTtl: true,
  buffersWrites: false,
  takeOrders,
  post: report => port.postMessage(report),
})

const run = (): void => {
  const until = worker.now + mostMs
  do worker.turn(longestWaitMs)
  while (worker.isRunning && worker.now < until)
  if (worker.isRunning) setImmediate(run)
  else process.exit()
}
run()
