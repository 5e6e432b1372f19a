import { answerCalls } from '../process/child.ts'
import { looks } from './looks.ts'

/** Looks around in the place where it runs. Its parent ends it when it has waited enough. */
answerCalls(looks())
