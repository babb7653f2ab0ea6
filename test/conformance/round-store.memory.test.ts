import { MemoryRounds } from '../../lib/testing/memory-rounds.ts';
import { roundStoreConformance } from './round-store.ts';
import { aName } from './samples.ts';

const rounds = new MemoryRounds();

roundStoreConformance('memory', () => ({ rounds, token: () => aName('r') }));
