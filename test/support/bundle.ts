/** The construct packs the functions as they are bundled, so what infrastructure tests synthesise is what the sources say. */
export { bundleFunctions as setup } from '../../infra/bundle.ts';
