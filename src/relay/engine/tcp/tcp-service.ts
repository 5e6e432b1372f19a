import type { OpenNow, Waited } from '../../access-log/access-entry.ts'
import { AccessLines } from '../../access-log/access-lines.ts'
import type { Cause, ConnectionRecord } from '../../cause.ts'
import type { ListenerOrder } from '../orders.ts'
import { DialBrake, isFar } from '../rings.ts'
import { ListenerState } from '../worker/listener-state.ts'
import type { WorkerEnv } from '../worker/worker-backend.ts'

/** What connections know of their ServicePort: its endpoints, who may connect, the figures. */
export class TcpService extends ListenerState {
  readonly #env: WorkerEnv
  readonly #connectionEnded: () => void
  /** Where its connections are written down, if they are. */
  accessLines: AccessLines | undefined
  /** Open connections that `isFar` holds for. */
  far = 0
  /** Where no TTL is known. */
  readonly brake: DialBrake | undefined
  #connections = 0
  #lastError = ''

  /** `connectionEnded` is called when one has, and is counted no more. */
  constructor(env: WorkerEnv, order: ListenerOrder, connectionEnded: () => void) {
    super(env, order)
    this.#env = env
    this.brake = env.knowsTtl ? undefined : new DialBrake()
    this.#connectionEnded = connectionEnded
  }

  override take(order: ListenerOrder): void {
    super.take(order)
    const { observer } = this.#env
    this.accessLines = AccessLines.of(
      order.spec,
      this.counters,
      observer,
      this.accessLines,
    )
  }

  /** Those that have not ended. */
  get connections(): number {
    return this.#connections
  }

  /** One has ended: a record is made of it for those that want it. `open`: without this one. */
  report(
    cause: Cause,
    address: () => string,
    recordOf: () => ConnectionRecord,
    waited: Waited,
    open: () => OpenNow,
  ): void {
    const { observer, endedConnections } = this.#env
    const isWanted = observer.wants(cause)
    const subscribers = endedConnections.subscribers(this.name, cause, address)
    if (!isWanted && this.accessLines === undefined && subscribers === undefined) return
    const record = recordOf()
    if (isWanted) observer.connectionClosed(record)
    for (const subscriber of subscribers ?? []) subscriber.add(record)
    this.accessLines?.add(record, waited, open())
  }

  begun(): void {
    this.#connections += 1
    this.counters.add('active', 1)
  }

  /** `failure`: what kept a connection from being served, '' when nothing did; `ttl`: its client's. */
  ended(failure: string, ttl = 0): void {
    this.#connections -= 1
    if (isFar(ttl)) this.far -= 1
    this.counters.add('active', -1)
    if (failure !== '' && failure !== this.#lastError) {
      this.#lastError = failure
      this.#env.observer.lastError(this.slot, failure)
    }
    this.#connectionEnded()
  }
}
