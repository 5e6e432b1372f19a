import { answerParent } from '../process/child.ts'
import { answerProbe, type ProbeQuestion } from './answer-probe.ts'

/** Looks around in the place where it runs. Its parent ends it when it has waited enough. */
const never = new AbortController().signal

answerParent(question => answerProbe(question as ProbeQuestion, never))
