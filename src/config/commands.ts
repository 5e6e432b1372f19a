export interface CommandText {
  /** One line for the list of commands. */
  readonly summary: string
  /** What follows `usher NAME` in its usage line. */
  readonly usage: string
  readonly description: string
  /** Complete command lines, each with what it does. */
  readonly examples: readonly (readonly [line: string, meaning: string])[]
  /** The flags of which it takes one to have something to do, and what to say then. */
  readonly needs?: { readonly oneOf: readonly string[]; readonly message: string }
}

/** Every command, in the order help shows them. */
export const commands = {
  run: {
    summary: 'Proxy the Services of a cluster, or of manifest files.',
    usage: '[--manifests PATH...] [flags]',
    description:
      'Takes the place of kube-proxy on a node: watches Services and their endpoints at ' +
      'the API server, or reads them from YAML or JSON files, and load-balances TCP connections and ' +
      'UDP flows over the endpoints: by rules in the kernel (iptables, nftables or ipvs mode), or itself ' +
      "(userspace mode). kube-proxy's flags and configuration file are taken as they are. A change " +
      'leaves the connections of all other Services alone. SIGHUP reads everything again. SIGTERM or Ctrl-C lets open ' +
      'connections finish; a second one ends Usher at once.',
    examples: [
      ['usher run --kubeconfig /etc/kubernetes/kubeconfig', 'the Services of a cluster'],
      ['usher run --config /var/lib/kube-proxy/config.conf', 'as kube-proxy is set up'],
      ['usher run --manifests deploy/examples/demo.yaml', 'the Services of a file'],
    ],
  },
  sidecar: {
    summary: 'Proxy a few fixed routes, such as one to a database.',
    usage: '[--route ROUTE...] [--config FILE] [flags]',
    description:
      'Listens on an address and load-balances its connections over a list of endpoints, trying ' +
      'another one when an endpoint refuses or does not answer. A route is ' +
      'tcp://LISTEN=ENDPOINT,ENDPOINT or udp://LISTEN=ENDPOINT,ENDPOINT; endpoints may be ' +
      'host names, which are looked up again as their records expire. Routes may also stand ' +
      'in a file, which is read again when it changes: connections of what did not change ' +
      'are left alone. In a pod it starts before the application and ends after it; its exit ' +
      'code is 0 whenever it was told to end.',
    examples: [
      [
        "usher sidecar --route 'tcp://127.0.0.1:15432=10.0.0.5:5432,10.0.0.6:5432'",
        'a database with a standby',
      ],
      ['usher sidecar --config deploy/examples/routes.yaml', 'the routes of a file'],
    ],
    needs: {
      oneOf: ['route', 'config'],
      message:
        "no route given; say where to listen and where to go, like usher sidecar --route 'tcp://127.0.0.1:15432=10.0.0.5:5432,10.0.0.6:5432', or give a file of routes with --config",
    },
  },
  demo: {
    summary: 'Run a demonstration on this computer, with backends of its own.',
    usage: '[flags]',
    description:
      'Starts a few small backends and a proxy in front of them, sends real traffic ' +
      'through it and shows where it goes. Needs no privileges, no cluster and no ' +
      'network. Then it stays up for you to try, until Ctrl-C.',
    examples: [
      ['usher demo', 'look around'],
      ['usher demo --once', 'do it all once, check it, and exit 0 or 1'],
    ],
  },
  check: {
    summary: 'Say what is wrong in files and flags, or what works on this node.',
    usage: '[FILE...] [flags of run]',
    description:
      'Without files, tries on this node what Usher could use to capture traffic, says for ' +
      'each mode and capture whether it works and why not, and changes nothing. With ' +
      'files, reads manifests as `usher run` would and lists every problem with its file, ' +
      'document and field; or a file of routes, as `usher sidecar` would. Takes the flags of `usher run` too, and its --config file, to ' +
      'check them; a mode in that file that does not work here is a warning, as the file may be for another node. ' +
      'The last lines say what to run next. Exits 0 when all is well, 1 when there are problems or the mode of ' +
      '--proxy-mode or the capture of --capture does not work here, 2 when it was called ' +
      'wrongly.',
    examples: [
      ['usher check', 'what works on this node; as root'],
      ['usher check deploy/examples/demo.yaml', 'one file'],
      ['usher check deploy/examples/routes.yaml', 'the routes of a sidecar'],
      ['usher check services/ --drain-timeout 1m', 'a directory, and a flag'],
      ['usher check --config config.conf', "kube-proxy's configuration file"],
    ],
  },
  status: {
    summary: 'Show what a running Usher is doing.',
    usage: '[SERVICE...] [flags]',
    description:
      'Asks a running Usher, on its metrics address, for its Services, their VIPs (the ' +
      'addresses that clients dial), endpoints, connections and errors. Of more than 20 ' +
      'ServicePorts it prints those that are not ok, unless some are named. Exits 0 when ' +
      'Usher answers, whatever the answer is, 1 when nothing has a given name, and 3 with ' +
      'the reason when there is no answer.',
    examples: [
      ['usher status', 'the Usher on this host'],
      ['usher status default/web', 'one Service, with its endpoints'],
      ['usher status --json | jq .unhealthy', 'for programs'],
    ],
  },
  pause: {
    summary: 'Hold new connections of a route, as for a switchover.',
    usage: 'ROUTE... --control-socket PATH [--reset] [--for DURATION]',
    description:
      'Tells a running Usher, over its control socket, to keep new TCP clients of a route ' +
      'waiting: none is connected to an endpoint, and what they send is kept, until `usher ' +
      "resume`. Each waits as long as the route's hold allows, or 60 s where it has none, and " +
      'is then reset. Give a route by its name; in `usher run` a route is a Service, as ' +
      'default/db or default/db:port, in userspace mode. Usher forgets a pause when it ends. ' +
      'Exits 0 when the routes are paused, also when they were before; 1 with the reason ' +
      'when one of them is not; 2 when it was called wrongly.',
    examples: [
      [
        'usher pause db --reset --control-socket /run/usher/control',
        'before a switchover',
      ],
      ['usher pause db --for 2m', 'with USHER_CONTROL_SOCKET set; it ends by itself'],
    ],
    needs: {
      oneOf: ['name'],
      message: 'no route given; name one, like usher pause db',
    },
  },
  resume: {
    summary: 'End a pause: the waiting clients are connected.',
    usage: 'ROUTE... --control-socket PATH',
    description:
      'Tells a running Usher, over its control socket, to end the pause of a route. The clients ' +
      'that wait are connected within a second, spread over it. Exits 0 ' +
      'when the routes are not paused, also when they were not before; 1 with the reason ' +
      'when one of them still is; 2 when it was called wrongly.',
    examples: [
      ['usher resume db --control-socket /run/usher/control', 'after a switchover'],
    ],
    needs: {
      oneOf: ['name'],
      message: 'no route given; name one, like usher resume db',
    },
  },
  drain: {
    summary: 'Stop sending new connections to an endpoint.',
    usage: 'ENDPOINT... --control-socket PATH [flags]',
    description:
      'Tells a running Usher, over its control socket, to send no new connection or flow to ' +
      'an endpoint, for example before it is taken out of service: other endpoints of its route get them. ' +
      'Its open connections stay, or are reset with --close. Where all endpoints of a route ' +
      'are drained its clients wait as long as its hold allows, or are refused. Ends with `usher ' +
      'undrain`, with --for, when the endpoint leaves its route, and when Usher ends. Exits 0 ' +
      'when the endpoint is drained, also when it was before; 1 with the reason when it is ' +
      'not; 2 when it was called wrongly.',
    examples: [
      [
        'usher drain 10.0.0.5:5432 --control-socket /run/usher/control',
        'in all routes that have it',
      ],
      ['usher drain 10.0.0.5:5432 --route db --close idle --for 1h', 'before an upgrade'],
    ],
    needs: {
      oneOf: ['endpoint'],
      message: 'no endpoint given; name one, like usher drain 10.0.0.5:5432',
    },
  },
  undrain: {
    summary: 'Send an endpoint new connections again.',
    usage: 'ENDPOINT... --control-socket PATH [--route NAME]',
    description:
      'Tells a running Usher, over its control socket, to send new connections to a drained endpoint ' +
      'again. Exits 0 when it is not drained, also when it was not before; ' +
      '1 with the reason when it still is; 2 when it was called wrongly.',
    examples: [
      ['usher undrain 10.0.0.5:5432 --control-socket /run/usher/control', 'it is back'],
    ],
    needs: {
      oneOf: ['endpoint'],
      message: 'no endpoint given; name one, like usher undrain 10.0.0.5:5432',
    },
  },
  weight: {
    summary: 'Change the share of new connections that an endpoint gets.',
    usage: 'ENDPOINT [N] --control-socket PATH [--route NAME] [--reset]',
    description:
      'Tells a running Usher, over its control socket, to give an endpoint the weight N, 0 to ' +
      '256, in place of what its source says: one of weight 2 gets twice the new connections of ' +
      'one of weight 1. One of weight 0 gets some only when no other can be connected to. ' +
      'Without N the endpoint has the weight of its source again. Usher forgets the order when the endpoint ' +
      'leaves its route, and when Usher ends. Exits 0 when the weight is set, 1 with the reason when it is ' +
      'not, 2 when it was called wrongly.',
    examples: [
      ['usher weight 10.0.0.5:5432 10 --route db', 'a tenth of those with weight 100'],
      ['usher weight 10.0.0.5:5432 --reset', 'as its source says'],
    ],
    needs: {
      oneOf: ['endpoint'],
      message: 'no endpoint given; name one, like usher weight 10.0.0.5:5432 10',
    },
  },
  get: {
    summary: 'List services, endpoints or connections of a running Usher.',
    usage: 'KIND [NAME...] [flags]',
    description:
      'Asks a running Usher, on this host, for the ports of its Services (or its routes), ' +
      'their endpoints, the addresses at which clients come in, or the TCP connections ' +
      'that are open now, and prints a line for each. Of connections there are at most ' +
      '10,000; a note says how many more there are. Exits 0; 1 when nothing has a given name, ' +
      'or Usher has not read its Services yet; 3 with the reason when no Usher answers.',
    examples: [
      ['usher get services -n default', 'a line for each port'],
      ['usher get endpoints default/web -o wide', 'those of one, with what checks say'],
      ['usher get connections -o json | jq .items', 'for programs'],
      ['usher get endpoints -w', 'and each that changes, as it does'],
    ],
    needs: {
      oneOf: ['kind'],
      message:
        'nothing to list; give services, endpoints, connections, listeners or routes',
    },
  },
  top: {
    summary: 'Watch the Services of a running Usher, the busiest first.',
    usage: '[flags]',
    description:
      'Asks a running Usher, on this host, each second for its figures and shows a table: ' +
      'new connections, failures, retries and bytes a second of each port of a Service, or ' +
      'route. Keys: n, a, f, r, b and s sort (as --sort does, s by name), e shows endpoints in place of ' +
      'Services and back, q ends. Exits 0; with --once 1 when Usher has not read its Services ' +
      'yet; 3 with the reason when no Usher answers.',
    examples: [
      ['usher top', 'the busiest first, until q'],
      ['usher top --once --sort failed', 'one table, for a script or a note'],
    ],
  },
  tap: {
    summary: 'Watch connections of a Service as they end.',
    usage: 'SERVICE... [flags]',
    description:
      'Asks a running Usher, on this host, each second which TCP connections of a Service, or ' +
      'route, have ended, and prints a line for each: who the client was, which endpoint it ' +
      'had and which others had failed before, how long it lasted, the bytes each way and ' +
      'how it ended. The data of a connection is never shown. Usher records nothing before ' +
      'the first request of a tap, and stops when there are no more. The command runs until ' +
      'Ctrl-C, and then exits 0; it goes on while Usher does not answer for a time, and says so. ' +
      'Exits 3 when no Usher answers at the start, 1 when there is no such Service.',
    examples: [
      ['usher tap default/web', 'all ports of a Service'],
      ['usher tap db --failed', 'what went wrong'],
      ['usher tap default/web --client 10.244.3.0/24 -o json', 'from some pods, for jq'],
    ],
    needs: {
      oneOf: ['service'],
      message: 'no Service given; name one, like usher tap default/web',
    },
  },
  explain: {
    summary: 'Say which endpoint a client would get, and why not another.',
    usage: '[CLIENT] ADDRESS:PORT|unix:PATH [flags]',
    description:
      'Asks a running Usher, on this host, what would become of a client that dials an address: the Service ' +
      'or route, the verdict of its traffic policies, whether affinity binds the client, which ' +
      'endpoint it would get, and of each other endpoint why not: not ready, on another ' +
      'node, cooling down after a failure, drained, at its limit. In the kernel modes, where the ' +
      'kernel chooses, it names the chains, map entries or virtual servers of the address, each with the ' +
      'command that shows it; the affinity entries of the kernel are not read. Nothing is ' +
      'changed: no connection is made, and round-robin does not advance. A client of a unix socket has no address; ' +
      'leave out CLIENT. Exits 0 when the client would be ' +
      'forwarded, 1 when it would not, or would wait, or nothing is served there; 2 when it was called wrongly.',
    examples: [
      ['usher explain 10.0.3.7 10.96.0.10:80', 'a client of a ClusterIP'],
      ['usher explain 10.0.3.7 10.96.0.10:53 --protocol udp', 'of UDP'],
      ['usher explain 127.0.0.1 127.0.0.1:15432', 'of a route of a sidecar'],
      ['usher explain unix:/run/db.sock', 'of one at a unix socket'],
    ],
    needs: {
      oneOf: ['dialled'],
      message:
        'nothing to explain; give a client and what it dials, like usher explain 10.0.3.7 10.96.0.10:80',
    },
  },
  close: {
    summary: 'Reset a connection.',
    usage: 'CONNECTION... --control-socket PATH',
    description:
      'Tells a running Usher, over its control socket, to reset TCP connections on both ' +
      'sides, by the names that `usher get connections` gives them; no two connections ever ' +
      'have the same. Exits 0 when all of them were open and are now closed, 1 when one was ' +
      'not open, which is then named, 3 with the reason when no Usher answers.',
    examples: [
      ['usher close 1-mf3k2a9x-42 --control-socket /run/usher/control', 'one connection'],
    ],
    needs: {
      oneOf: ['connection'],
      message: 'no connection given; usher get connections lists them',
    },
  },
  wait: {
    summary: 'Wait until something accepts connections at an address.',
    usage: 'ROUTE|HOST:PORT... [flags]',
    description:
      'Connects to each address until all have accepted, and then exits 0: in an init ' +
      'container it keeps an application from starting before its database. A connection ' +
      'counts when it stays open for a moment or when a byte comes, for a proxy accepts ' +
      'before it knows whether anything is behind it; a sidecar on this host or in this pod ' +
      'is asked whether its clients are connected or only wait, see --address. Tries again ' +
      'with growing pauses of up to a second, and says every few seconds on stderr what it waits for. Exits 1 ' +
      'with the last reason at the timeout, 2 when it was called wrongly.',
    examples: [
      ['usher wait db.prod.svc:5432', 'a database, as an init container would'],
      ['usher wait tcp://127.0.0.1:15432', 'the same through the sidecar of the pod'],
      ['usher wait 10.0.0.5:5432 10.0.0.6:5432 --timeout 5m', 'both of them'],
    ],
    needs: {
      oneOf: ['for'],
      message: 'nothing to wait for; give an address, like usher wait db.prod.svc:5432',
    },
  },
  cleanup: {
    summary: 'Remove what Usher or kube-proxy left in the kernel.',
    usage: '[flags]',
    description:
      'Removes the rules, sets, virtual servers, routes, addresses and devices that Usher ' +
      'or the userspace, iptables, ipvs and nftables modes of kube-proxy left on this ' +
      'node, and nothing else. The chains of the kubelet stay, and so does what rules of other programs ' +
      'use or what belongs to a running kube-proxy, which is recognised by its answer on ' +
      '127.0.0.1:10249/proxyMode, for which --only-usher does not ask. An Usher without rules on that port, such as a sidecar, ' +
      'may hide a kube-proxy: then what may belong to one stays too. End Usher first. Exits 0 when everything is gone or nothing was ' +
      'there, 1 with the reason for what stayed.',
    examples: [
      ['usher cleanup --dry-run', 'look first'],
      ['usher cleanup', 'remove it, as root'],
      ['usher cleanup --only-usher', 'what a current kube-proxy may have stays'],
    ],
  },
  completion: {
    summary: 'Print the completion script for a shell.',
    usage: 'bash|zsh|fish',
    description:
      'Prints a script for the shell that is named. When the shell has read it, the tab key ' +
      'completes commands of usher, their flags, the values of those that take one of a few ' +
      'words, and files. bash has to be 4 or later; zsh needs compinit, and reads the script also ' +
      'as a file _usher of its fpath. Exits 0, or 2 when it was called wrongly.',
    examples: [
      ['usher completion bash', 'as source <(usher completion bash) in ~/.bashrc'],
      ['usher completion zsh', 'as source <(usher completion zsh) in ~/.zshrc'],
      ['usher completion fish | source', 'in this fish'],
    ],
    needs: {
      oneOf: ['shell'],
      message: 'no shell given; give bash, zsh or fish',
    },
  },
  bench: {
    summary: 'Compare Usher with HAProxy, nginx and no proxy at all.',
    usage: '[flags]',
    description:
      'Builds a client, nodes and backend pods in network namespaces of its own, starts ' +
      'Usher (with each capture), HAProxy and nginx there, and measures them in turn with ' +
      'the same load. Prints a table, and writes the figures and a report with pictures. ' +
      'What is not installed or not possible here is left out by name. Nothing of the ' +
      'host is changed, and nothing stays when it ends, however it ends; Ctrl-C keeps ' +
      'what was measured. Exits 0 when all was measured, 1 when something failed.',
    examples: [
      ['usher bench --quick', 'less than three minutes'],
      ['usher bench --install-peers', 'everything; as root, on Debian or Ubuntu'],
      ['usher bench --only requests,latency --targets direct,usher,haproxy', 'a part'],
      [
        'usher bench --target kube-proxy=10.96.0.10:80 --backend 10.244.1.7:80',
        'an address',
      ],
    ],
  },
} as const satisfies Readonly<Record<string, CommandText>>

export type Command = keyof typeof commands

export const isCommand = (word: string): word is Command => Object.hasOwn(commands, word)

export const commandNames: readonly Command[] = Object.keys(commands).filter(isCommand)

/** What `usher` ends with, and what that means: for help, man pages and docs. */
export const exitCodes: readonly (readonly [code: string, meaning: string])[] = [
  ['0', 'what was asked for is done; a proxy was told to end'],
  ['1', 'the command failed or found a problem; the reason is on standard error'],
  ['2', 'the command was called wrongly'],
  [
    '3',
    'no Usher answered: none runs there, it does not listen, or the caller may not query it',
  ],
  ['75', 'the configuration file of `usher run` has changed: start it again'],
]
