never :: Read;
