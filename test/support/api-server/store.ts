import { randomUUID } from 'node:crypto'
import type { KubeObject } from './kube-object.ts'
import { type Resource, resourceOf } from './resources.ts'
import { RecentLists } from './recent-lists.ts'
import { tooLarge, tooOldList, tooOldWatch } from './refusals.ts'
import { keyOf, parsed, store, type Stored } from './stored.ts'

/** One change, as etcd tells it: before any selector looked at it. */
export interface Change {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  readonly version: number
  readonly now: Stored
  readonly before: Stored | undefined
}

/** All that a restored backup brings back. */
export interface Backup {
  readonly version: number
  readonly objects: readonly Stored[]
}

/**
 * Objects in memory with one resource version for all of them, which only grows, and
 * the changes of the recent past, from which watches resume.
 */
export class Store {
  readonly #objects = new Map<Resource, Map<string, Stored>>()
  readonly #listeners = new Set<(change: Change) => void>()
  readonly #historyLimit: number
  /** The pages of a list are of one moment: they are cut from one of these. */
  readonly #lists = new RecentLists()
  #history: Change[] = []
  #version: number
  /** Changes up to this one are forgotten. */
  #compacted: number

  /** @param historyLimit - changes that are remembered; the oldest are compacted */
  constructor(firstVersion: number, historyLimit: number) {
    this.#version = firstVersion
    this.#compacted = firstVersion
    this.#historyLimit = historyLimit
  }

  get version(): number {
    return this.#version
  }

  get compacted(): number {
    return this.#compacted
  }

  /**
   * What there was at a version, in the order of the keys, as etcd lists it. Throws 410
   * when that is forgotten, 504 when it is yet to come.
   */
  list(resource: Resource, version = this.#version): readonly Stored[] {
    if (version < this.#compacted) throw tooOldList()
    if (version > this.#version) throw tooLarge(version, this.#version)
    return this.#lists.get(`${resource.plural}@${version}`, () => {
      const all = new Map(this.#objects.get(resource))
      for (const { now, before } of this.since(resource, version).toReversed())
        if (before === undefined) all.delete(now.key)
        else all.set(before.key, before)
      return [...all.values()].toSorted((a, b) => (a.key < b.key ? -1 : 1))
    })
  }

  get(resource: Resource, namespace: string, name: string): Stored | undefined {
    return this.#objects.get(resource)?.get(keyOf(namespace, name))
  }

  /** Creates or replaces. A write that changes nothing makes no new version. */
  put(object: KubeObject): Stored {
    const resource = resourceOf(object.apiVersion, object.kind)
    const { name, namespace = '' } = object.metadata
    const before = this.get(resource, namespace, name)
    const whole = complete(object, before)
    if (before !== undefined) {
      const same = store(resource, whole, before.version)
      if (same.json === before.json) return before
    }
    const version = this.#version + 1
    const now = store(resource, whole, version)
    this.#collection(resource).set(now.key, now)
    this.#tell({ type: before ? 'MODIFIED' : 'ADDED', version, now, before })
    return now
  }

  /** The last state with the version of its deletion; undefined when there was none. */
  delete(resource: Resource, namespace: string, name: string): Stored | undefined {
    const before = this.get(resource, namespace, name)
    if (before === undefined) return undefined
    const version = this.#version + 1
    const now = store(resource, parsed(before), version)
    this.#collection(resource).delete(before.key)
    this.#tell({ type: 'DELETED', version, now, before })
    return now
  }

  /** Changes after `version`, oldest first. Throws 410 when they are forgotten. */
  since(resource: Resource, version: number): Change[] {
    if (version < this.#compacted) throw tooOldWatch(version, this.#compacted)
    return this.#history.filter(
      change => change.version > version && change.now.resource === resource,
    )
  }

  /** Forgets what happened, as etcd does every five minutes. */
  compact(upTo = this.#version): void {
    this.#compacted = Math.max(this.#compacted, upTo)
    this.#history = this.#history.filter(({ version }) => version > this.#compacted)
  }

  /** Hears of each change at once; the function returned ends that. */
  subscribe(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  backup(): Backup {
    const objects: Stored[] = []
    for (const each of this.#objects.values()) objects.push(...each.values())
    return { version: this.#version, objects }
  }

  /** Becomes what it was, versions included; watches hear nothing of it. */
  restore({ version, objects }: Backup): void {
    this.#objects.clear()
    for (const stored of objects)
      this.#collection(stored.resource).set(stored.key, stored)
    this.#version = version
    this.#compacted = version
    this.#history = []
    this.#lists.clear()
  }

  #collection(resource: Resource): Map<string, Stored> {
    let collection = this.#objects.get(resource)
    if (collection === undefined) {
      collection = new Map()
      this.#objects.set(resource, collection)
    }
    return collection
  }

  #tell(change: Change): void {
    this.#version = change.version
    this.#history.push(change)
    // Half at once, so that a full history is not moved at each change.
    if (this.#history.length > this.#historyLimit * 2)
      this.compact(this.#history.at(-this.#historyLimit - 1)?.version)
    for (const listener of this.#listeners) listener(change)
  }
}

/** With what the server adds to what a client sent. */
const complete = (object: KubeObject, before: Stored | undefined): KubeObject => {
  const old = before === undefined ? undefined : parsed(before).metadata
  const { resourceVersion: _version, ...metadata } = object.metadata
  return {
    ...object,
    metadata: {
      ...metadata,
      uid: old?.uid ?? metadata.uid ?? randomUUID(),
      creationTimestamp:
        old?.creationTimestamp ??
        metadata.creationTimestamp ??
        `${new Date().toISOString().slice(0, 19)}Z`,
    },
  }
}
