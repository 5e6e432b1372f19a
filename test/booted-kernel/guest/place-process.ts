import { inPlace } from './place.ts'
import type { PlaceCall, Reply, Request } from './protocol.ts'

/* A process in another namespace than the agent, which tells it what to do. */

const reply = (answer: Reply): void => void process.send?.(answer)

process.on('message', ({ id, call }: Request) => {
  inPlace(call as PlaceCall).then(
    result => reply({ id, result }),
    (error: Error) => reply({ id, error: error.message }),
  )
})
process.once('disconnect', () => process.exit())
reply({ id: 0 })
