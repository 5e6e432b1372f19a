export interface CommandText {
  /** One line for the list of commands. */
  readonly summary: string
  /** What follows `usher NAME` in its usage line. */
  readonly usage: string
  readonly description: string
  /** Complete command lines, each with what it does. */
  readonly examples: readonly (readonly [line: string, meaning: string])[]
  /** The list flag without which the command has nothing to do, and what to say then. */
  readonly needs?: { readonly flag: string; readonly message: string }
}

/** Every command, in the order help shows them. */
export const commands = {
  run: {
    summary: 'Proxy the Services described in manifest files.',
    usage: '--manifests PATH... [flags]',
    description:
      'Reads Services and their endpoints from YAML or JSON files, listens for their ' +
      'clients and spreads TCP connections and UDP flows over the endpoints. Files are ' +
      'read again when they change; connections of what did not change are left alone. ' +
      'SIGHUP reads them at once. SIGTERM or Ctrl-C lets open connections finish; a ' +
      'second one ends Usher at once.',
    examples: [
      ['usher run --manifests deploy/examples/demo.yaml', 'one file'],
      ['usher run --manifests services/ --capture none', 'a directory, proxy ports only'],
    ],
    needs: {
      flag: 'manifests',
      message:
        'no manifests given; name files or directories, like usher run --manifests deploy/examples/demo.yaml',
    },
  },
  sidecar: {
    summary: 'Proxy a few fixed routes, such as the way to a database.',
    usage: '--route ROUTE... [flags]',
    description:
      'Listens on an address and spreads its connections over a list of backends, trying ' +
      'another one when a backend refuses or does not answer. A route is ' +
      'tcp://LISTEN=BACKEND,BACKEND or udp://LISTEN=BACKEND,BACKEND; backends may be host ' +
      'names, which are looked up again as their records expire.',
    examples: [
      [
        "usher sidecar --route 'tcp://127.0.0.1:15432=10.0.0.5:5432,10.0.0.6:5432'",
        'a database with a standby',
      ],
    ],
    needs: {
      flag: 'route',
      message:
        "no route given; say where to listen and where to go, like usher sidecar --route 'tcp://127.0.0.1:15432=10.0.0.5:5432,10.0.0.6:5432'",
    },
  },
  demo: {
    summary: 'Show it all working on this computer, with backends of its own.',
    usage: '[flags]',
    description:
      'Starts a few small backends and a proxy in front of them, sends real traffic ' +
      'through it and shows what happens to it. Needs no privileges, no cluster and no ' +
      'network. Then it stays up for you to try, until Ctrl-C.',
    examples: [
      ['usher demo', 'look around'],
      ['usher demo --once', 'do it all once, check it, and exit 0 or 1'],
    ],
  },
  check: {
    summary: 'Say what is wrong with manifests and flags, without starting.',
    usage: 'FILE... [flags of run]',
    description:
      'Reads manifests as `usher run` would and lists every problem with its file, ' +
      'document and field. Takes the flags of `usher run` too, to check them. Exits 0 ' +
      'when all is well, 1 when there are problems, 2 when it was called wrongly.',
    examples: [
      ['usher check deploy/examples/demo.yaml', 'one file'],
      ['usher check services/ --drain-timeout 1m', 'a directory, and a flag'],
    ],
    needs: {
      flag: 'manifests',
      message:
        'no files given; name files or directories, like usher check deploy/examples/demo.yaml',
    },
  },
  status: {
    summary: 'Show what a running Usher is doing.',
    usage: '[flags]',
    description:
      'Asks a running Usher, on its metrics address, for its Services, their VIPs (the ' +
      'addresses that clients dial), endpoints, connections and errors.',
    examples: [
      ['usher status', 'the Usher on this host'],
      ['usher status --json | jq .unhealthy', 'for programs'],
    ],
  },
} as const satisfies Readonly<Record<string, CommandText>>

export type Command = keyof typeof commands

export const isCommand = (word: string): word is Command => Object.hasOwn(commands, word)

export const commandNames: readonly Command[] = Object.keys(commands).filter(isCommand)
